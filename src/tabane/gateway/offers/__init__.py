"""What servers offer besides tools: prompts, resources and templates, and who watches which resource."""
