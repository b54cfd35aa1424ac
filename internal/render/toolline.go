package render

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// The largest lengths of a tool call, in characters and rows.
const (
	maxArgument = 60
	maxResult   = 160
	maxRows     = 4
)

// callLine returns a tool call on one line: name(argument="value", …).
func callLine(call *event.ToolCall) string {
	var args []string
	for _, m := range members(call.Input) {
		args = append(args, visible.Line(m.Name)+"="+visible.Cut(visible.Line(string(m.Value)), maxArgument))
	}
	return visible.Line(call.Name) + "(" + visible.Cut(strings.Join(args, ", "), maxResult) + ")"
}

// resultLines returns a tool's result on one line. For a list of objects, line contains their number and rows the first
// ones.
func resultLines(result *event.ToolResult) (line string, rows []string) {
	if result.IsError {
		return "failed: " + visible.Cut(visible.Line(event.OutputText(result.Output)), maxResult), nil
	}
	var list []json.RawMessage
	if json.Unmarshal(result.Output, &list) == nil && list != nil {
		if rows = table(list); rows != nil || len(list) == 0 {
			return Count(len(list), "row"), rows
		}
	}
	if row := pairs(result.Output); row != "" {
		return visible.Cut(row, maxResult), nil
	}
	return visible.Cut(visible.Line(event.OutputText(result.Output)), maxResult), nil
}

// table returns the rows of a list of objects, or nil for any other list.
func table(list []json.RawMessage) []string {
	var rows []string
	for i, item := range list {
		row := pairs(item)
		switch {
		case row == "":
			return nil
		case i < maxRows:
			rows = append(rows, visible.Cut(row, maxResult))
		case i == maxRows:
			rows = append(rows, fmt.Sprintf("… and %d more", len(list)-maxRows))
		}
	}
	return rows
}

// pairs returns an object on one line, as key: value, …, or "" for any other value.
func pairs(object json.RawMessage) string {
	var parts []string
	for _, m := range members(object) {
		parts = append(parts, visible.Line(m.Name)+": "+visible.Line(event.OutputText(m.Value)))
	}
	return strings.Join(parts, ", ")
}

// members returns the members of a JSON object in order, or nil for any other value.
func members(object json.RawMessage) []plainjson.Member {
	all, err := plainjson.Members(object)
	if err != nil {
		return nil
	}
	return all
}
