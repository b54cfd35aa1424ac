package endpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// step is a message, a call, the result of a call or an item of reasoning in a conversation of either protocol.
type step struct{ at, kind, id string }

// The kinds of steps that are no messages. The kind of a message is its role, which is tool for a result.
const (
	callStep      = "call"
	resultStep    = "tool"
	reasoningStep = "reasoning"
)

// steps returns the steps of a request. What cannot be read breaks another rule.
func (w *wireRequest) steps() (all []step) {
	for i, raw := range w.Messages {
		var m struct {
			Role   string                `json:"role"`
			CallID string                `json:"tool_call_id"`
			Calls  []struct{ ID string } `json:"tool_calls"`
		}
		_ = json.Unmarshal(raw, &m)
		at := fmt.Sprintf("messages[%d]", i)
		all = append(all, step{at, m.Role, m.CallID})
		for _, call := range m.Calls {
			all = append(all, step{at, callStep, call.ID})
		}
	}
	kinds := map[string]string{"reasoning": reasoningStep, "function_call": callStep, "function_call_output": resultStep}
	for i, item := range w.Input {
		all = append(all, step{fmt.Sprintf("input[%d]", i), cmp.Or(kinds[item.Type], string(item.Role)), item.CallID})
	}
	return all
}

// order checks the order of a conversation: results follow their calls before the next message, the item to which
// reasoning has led follows it, and the assistant has not the last word. In chat completions, a message of the system
// can begin it.
func (c *checker) order(all []step, chat bool) {
	var open []step // the calls without a result
	answered := func() {
		for _, call := range open {
			c.addf(call.at, "the call %q is not answered before the next message", call.id)
		}
		open = nil
	}
	seen := map[string]bool{}
	for i, s := range all {
		next := ""
		if i+1 < len(all) {
			next = all[i+1].kind
		}
		switch s.kind {
		case callStep:
			if seen[s.id] {
				c.addf(s.at, "%q is the id of two calls", s.id)
			}
			open, seen[s.id] = append(open, s), true
			continue
		case resultStep:
			at := slices.IndexFunc(open, func(call step) bool { return call.id == s.id })
			if at >= 0 {
				open = slices.Delete(open, at, at+1)
			} else {
				c.addf(s.at, "no call %q waits for a result here", s.id)
			}
			continue
		case reasoningStep:
			if !slices.Contains([]string{reasoningStep, callStep, "assistant"}, next) {
				c.addf(s.at, "reasoning without the item that it has led to")
			}
			continue
		case "system":
			if next != "user" && !(chat && i == 0) && (next != "" || i == 0) {
				c.addf(s.at, "a system message can only be the first of several messages or the last one, or come before one of the user")
			}
		case "assistant":
			if next == "" {
				c.addf(s.at, "the last message must not be the assistant's")
			}
		}
		answered()
	}
	answered()
}
