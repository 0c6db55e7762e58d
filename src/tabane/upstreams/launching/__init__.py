"""Package launchers (npx, uvx, docker …): what they download, and how a broken download is repaired."""
