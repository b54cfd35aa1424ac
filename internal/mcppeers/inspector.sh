#!/bin/sh
# The command line of the MCP inspector: lists the tools of a served tree, and asks it. Nothing in CI runs it, because it
# needs Node.js 22.19 and 110 MB. By hand:
#
#   arbor serve TREE --mcp
#   sh internal/mcppeers/inspector.sh http://127.0.0.1:8420/mcp TOKEN
#
# It prints {"tools": [{"name": "ask", …}]}, and then {"content": [{"type": "text", "text": …}],
# "structuredContent": {"session": "mcp-…", "agent": …}}.
set -eu
inspect() { npx -y @modelcontextprotocol/inspector@2.12.0 --cli "$url" --transport http --header "Authorization: Bearer $token" "$@"; }
url=$1 token=$2
inspect --method tools/list
inspect --method tools/call --tool-name ask --tool-arg 'message=I was charged twice'
