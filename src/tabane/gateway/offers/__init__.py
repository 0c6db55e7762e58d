"""What servers offer besides tools: prompts, resources and templates, and subscriptions to resources."""
