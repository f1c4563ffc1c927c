export default {
  "outbound.title": "出站",
  "outbound.lead": "远程智能体，其技能是本机模型可用的工具。",
  "outbound.none": "还没有连接远程智能体。",
  "outbound.name": "名称",
  "outbound.state": "状态",
};
