export default {
  "inbound.title": "入站",
  "inbound.lead": "本机上以 A2A 服务发布的智能体。",
  "inbound.none": "还没有发布智能体。",
  "inbound.name": "名称",
  "inbound.state": "状态",
};
