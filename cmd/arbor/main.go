// Command arbor runs trees of LLM agents. All of it is package cli.
package main

import "github.com/agentarbor/arbor/cli"

func main() { cli.Main() }
