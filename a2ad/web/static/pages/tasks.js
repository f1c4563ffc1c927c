import { html } from "../lib/ui.js";
import TaskList from "./tasks-list.js";
import TaskPage from "./tasks-one.js";

/** The tasks, or one of them. @param {{id: string, params: Record<string, string>}} props what follows `#/tasks/` */
export default function Tasks({ id, params }) {
  return id ? html`<${TaskPage} key=${id} id=${id} params=${params} />` : html`<${TaskList} params=${params} />`;
}
