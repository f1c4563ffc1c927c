import inbound from "./en/inbound.js";
import outbound from "./en/outbound.js";
import overview from "./en/overview.js";
import sessions from "./en/sessions.js";
import shell from "./en/shell.js";
import tasks from "./en/tasks.js";

export default { ...shell, ...overview, ...inbound, ...outbound, ...tasks, ...sessions };
