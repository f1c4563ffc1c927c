"""The agent kind `acp` of a2ad: any agent that speaks the Agent Client Protocol over stdio."""
