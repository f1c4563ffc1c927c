import inbound from "./zh/inbound.js";
import outbound from "./zh/outbound.js";
import overview from "./zh/overview.js";
import sessions from "./zh/sessions.js";
import shell from "./zh/shell.js";
import tasks from "./zh/tasks.js";

export default { ...shell, ...overview, ...inbound, ...outbound, ...tasks, ...sessions };
