package view_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

func say(role llm.Role, text string, parts ...llm.Part) llm.Message {
	return llm.Message{Role: role, Content: llm.Content{Text: text, Parts: parts}}
}

func TestCheck(t *testing.T) {
	user := say(llm.RoleUser, "Hi")
	call := func(id string) llm.Part { return llm.ToolCall{ID: id, Name: "t", Arguments: "{}"} }
	result := func(id string) llm.Message {
		return say(llm.RoleTool, "", llm.ToolResult{CallID: id, Name: "t", Output: ""})
	}
	for name, c := range map[string]struct {
		messages []llm.Message
		want     []string // what the error says; none means that all is well
	}{
		"a question":          {[]llm.Message{user}, nil},
		"media alone":         {[]llm.Message{say(llm.RoleUser, "", llm.Media{Kind: llm.MediaImage})}, nil},
		"several of the user": {[]llm.Message{user, user}, nil},
		"calls and results":   {[]llm.Message{user, say(llm.RoleAssistant, "Well", llm.Reasoning{Text: "hm"}, call("a"), call("b")), result("a"), result("b")}, nil},
		"two rounds":          {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), result("a"), say(llm.RoleAssistant, "", call("b")), result("b"), user}, nil},

		"no messages":                     {nil, []string{"no messages"}},
		"an unknown role":                 {[]llm.Message{user, say("system", "x"), say("system", "x")}, []string{"message 1 (system): a system message that is neither the last one nor"}},
		"the system's before the user's":  {[]llm.Message{user, say("system", "x"), user}, nil},
		"the last words are the system's": {[]llm.Message{user, say("system", "x")}, nil},
		"no role":                         {[]llm.Message{say("", "x")}, []string{"unknown role"}},
		"an empty user":                   {[]llm.Message{say(llm.RoleUser, "")}, []string{"it is empty"}},
		"an empty assistant":              {[]llm.Message{user, say(llm.RoleAssistant, ""), user}, []string{"message 1 (assistant): it is empty"}},
		"reasoning alone":                 {[]llm.Message{user, say(llm.RoleAssistant, "", llm.Reasoning{Text: "hm"}), user}, []string{"it is empty"}},
		"a user's call":                   {[]llm.Message{say(llm.RoleUser, "x", call("a"))}, []string{"a user message holds a llm.ToolCall"}},
		"an assistant's image":            {[]llm.Message{user, say(llm.RoleAssistant, "x", llm.Media{}), user}, []string{"an assistant message holds a llm.Media"}},
		"the last word":                   {[]llm.Message{user, say(llm.RoleAssistant, "x")}, []string{"must not end in the assistant's own words"}},
		"no result at the end":            {[]llm.Message{user, say(llm.RoleAssistant, "", call("a"))}, []string{`["a"] have no result`}},
		"no result before the user":       {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), user}, []string{`message 2 (user): the calls ["a"] have no result`}},
		"half of the results":             {[]llm.Message{user, say(llm.RoleAssistant, "", call("a"), call("b")), result("a"), user}, []string{`["b"]`}},
		"the wrong order":                 {[]llm.Message{user, say(llm.RoleAssistant, "", call("a"), call("b")), result("b"), result("a")}, []string{`"b" is not the one that is due`, `["b"] have no result`}},
		"a result of nothing":             {[]llm.Message{user, result("a")}, []string{`"a" is not the one that is due`}},
		"a second result":                 {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), result("a"), result("a")}, []string{"message 3 (tool)"}},
		"a tool's words":                  {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), say(llm.RoleTool, "x", llm.ToolResult{CallID: "a"})}, []string{"one result and nothing else", "have no result"}},
		"two results in one":              {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), say(llm.RoleTool, "", llm.ToolResult{CallID: "a"}, llm.ToolResult{CallID: "a"})}, []string{"one result", "have no result"}},
		"a tool's text part":              {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), say(llm.RoleTool, "", llm.TextPart{Text: "x"})}, []string{"holds a llm.TextPart", "have no result"}},
		"an id twice":                     {[]llm.Message{user, say(llm.RoleAssistant, "", call("a")), result("a"), say(llm.RoleAssistant, "", call("a")), result("a")}, []string{`id "a" is empty or stands twice`}},
		"no id":                           {[]llm.Message{user, say(llm.RoleAssistant, "", call("")), result("")}, []string{`id "" is empty`}},
		"a bad name":                      {[]llm.Message{user, say(llm.RoleAssistant, "", llm.ToolCall{ID: "a", Name: "a b", Arguments: "{}"}), result("a")}, []string{`malformed name "a b"`}},
		"no object":                       {[]llm.Message{user, say(llm.RoleAssistant, "", llm.ToolCall{ID: "a", Name: "t", Arguments: "[]"}), result("a")}, []string{"no JSON object"}},
		"null":                            {[]llm.Message{user, say(llm.RoleAssistant, "", llm.ToolCall{ID: "a", Name: "t", Arguments: "null"}), result("a")}, []string{"no JSON object"}},
		"no arguments":                    {[]llm.Message{user, say(llm.RoleAssistant, "", llm.ToolCall{ID: "a", Name: "t"}), result("a")}, []string{"no JSON object"}},
		"all at once": {[]llm.Message{say(llm.RoleUser, ""), say("x", "y"), say(llm.RoleAssistant, "", call(""))},
			[]string{"message 0", "message 1", "message 2", "the request"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := view.Check(&llm.Request{Messages: c.messages})
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
			if name != "all at once" && name != "the wrong order" {
				require.Len(t, strings.Split(err.Error(), "\n"), len(c.want), "%v", err)
			}
		})
	}
}

func TestCheckTools(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	for name, c := range map[string]struct {
		tools []llm.ToolSpec
		ok    bool
	}{
		"none":          {nil, true},
		"two":           {[]llm.ToolSpec{{Name: "a", Parameters: object}, {Name: "b-C_1"}}, true},
		"twice":         {[]llm.ToolSpec{{Name: "a"}, {Name: "a"}}, false},
		"no name":       {[]llm.ToolSpec{{}}, false},
		"a space":       {[]llm.ToolSpec{{Name: "a b"}}, false},
		"65 characters": {[]llm.ToolSpec{{Name: strings.Repeat("a", 65)}}, false},
		"no object":     {[]llm.ToolSpec{{Name: "a", Parameters: json.RawMessage(`{"type":"string"}`)}}, false},
		"no JSON":       {[]llm.ToolSpec{{Name: "a", Parameters: json.RawMessage(`{`)}}, false},
	} {
		err := view.Check(&llm.Request{Messages: []llm.Message{llm.UserText("Hi")}, Tools: c.tools})
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
	}
}
