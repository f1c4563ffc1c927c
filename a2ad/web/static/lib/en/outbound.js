export default {
  "outbound.title": "Outbound",
  "outbound.lead": "Remote agents, whose skills are tools for models on this machine.",
  "outbound.none": "No remote agent is connected yet.",
  "outbound.name": "Name",
  "outbound.state": "State",
};
