// Package conversation is the command conversation, which turns events into the graph of a conversation.
package conversation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	graph "github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/llm"
)

// Command returns the command conversation.
func Command(f *factory.Factory) *cobra.Command {
	var o reduceOptions
	reduce := factory.Command("reduce", func(*cobra.Command, []string) error { return reduceConversation(f, o) })
	reduce.Flags().StringVar(&o.project, "project", "graph", "print this `FORM`: graph, thread, messages, dag or hypergraph")
	reduce.Flags().StringVar(&o.active, "active", "", "follow this `PATH` through a conversation with branches, given as JSON or as a file; not for graph (default: the newest branches)")
	reduce.Flags().StringSliceVar(&o.hide, "hide", nil, "leave out these `PARTS` of a thread: reasoning, or tools (all of a call except id, name and status)")
	f.JSONFlag(reduce.Flags(), "print JSON on one line")
	return factory.Group("conversation", reduce)
}

// reduceOptions holds the flags of reduce.
type reduceOptions struct {
	project string
	active  string
	hide    []string
}

func reduceConversation(f *factory.Factory, o reduceOptions) error {
	if err := factory.OneOf("--project", o.project, "graph", "thread", "messages", "dag", "hypergraph"); err != nil {
		return err
	}
	var options graph.ThreadOptions
	for _, what := range o.hide {
		if err := factory.OneOf("--hide", what, "reasoning", "tools"); err != nil {
			return err
		}
	}
	options.HideReasoning = slices.Contains(o.hide, "reasoning")
	options.CollapseTools = slices.Contains(o.hide, "tools")
	active, err := readActive(f, o.active)
	if err != nil {
		return err
	}
	g, err := readConversation(f)
	if err != nil {
		return err
	}
	var out any = g // the whole graph
	switch o.project {
	case "thread":
		out = struct {
			Thread []graph.ViewNode `json:"thread"`
		}{append([]graph.ViewNode{}, graph.Thread(g, active, options)...)}
	case "messages":
		out = struct {
			Messages []jsonMessage `json:"messages"`
		}{jsonMessages(graph.Messages(g, active))}
	case "dag":
		out = graph.DAG(g, active)
	case "hypergraph":
		out = graph.HypergraphOf(g, active)
	}
	return f.PrintJSON(out)
}

// readActive reads the value of --active, which is JSON or a file's name. "" selects the newest branch everywhere.
func readActive(f *factory.Factory, flag string) (active graph.Active, err error) {
	text := []byte(strings.TrimSpace(flag))
	if len(text) == 0 {
		return active, nil
	}
	if text[0] != '{' {
		if text, err = f.Read("--active: neither a JSON object nor a file that can be read", flag, factory.MaxFile); err != nil {
			return active, err
		}
	}
	if err := json.Unmarshal(text, &active); err != nil {
		return active, factory.Usagef("--active: %w", err)
	}
	return active, nil
}

// jsonMessage is the form of --project messages.
type jsonMessage struct {
	Role       llm.Role   `json:"role"`
	Content    any        `json:"content"` // null in an assistant's message without text
	ToolCalls  []jsonCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type jsonCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func jsonMessages(messages []llm.Message) []jsonMessage {
	out := []jsonMessage{}
	for _, m := range messages {
		j := jsonMessage{Role: m.Role}
		switch {
		case m.Role == llm.RoleUser:
			j.Content = m.Content
		case m.Text != "":
			j.Content = m.Text
		}
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llm.ToolCall:
				j.ToolCalls = append(j.ToolCalls, jsonCall{p.ID, p.Name, json.RawMessage(p.Arguments)})
			case llm.ToolResult:
				j.Content, j.ToolCallID = p.Output, p.CallID
			}
		}
		out = append(out, j)
	}
	return out
}

// readConversation reduces the events of standard input. It skips empty lines.
func readConversation(f *factory.Factory) (*graph.Graph, error) {
	g := graph.New()
	if f.Stdin == nil {
		return g, nil
	}
	in := bufio.NewReader(f.Stdin)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, factory.Usagef("the events cannot be read: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var wrong error
			if g, wrong = g.ReduceJSON(line); wrong != nil {
				return nil, factory.Usagef("line %d: %s", n, factory.Plain(wrong, "conversation"))
			}
		}
		if err != nil {
			return g, nil
		}
	}
}
