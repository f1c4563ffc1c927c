export default {
  "inbound.title": "Inbound",
  "inbound.lead": "Agents of this machine, published as A2A servers.",
  "inbound.none": "No agent is published yet.",
  "inbound.name": "Name",
  "inbound.state": "State",
};
