export default {
  "tasks.title": "Tasks",
  "tasks.lead": "Everything that clients have asked for, newest first.",
  "tasks.none": "There are no tasks yet.",
  "tasks.name": "Task",
  "tasks.state": "State",
};
