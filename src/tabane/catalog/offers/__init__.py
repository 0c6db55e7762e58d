"""Offers of servers besides tools: prompts, resources and templates, and subscriptions to resources."""
