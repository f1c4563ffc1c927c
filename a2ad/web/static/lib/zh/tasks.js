export default {
  "tasks.title": "任务",
  "tasks.lead": "客户端请求过的全部任务，最新的在前。",
  "tasks.none": "还没有任务。",
  "tasks.name": "任务",
  "tasks.state": "状态",
};
