package llmagent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// TestPictureIsNotRepeated: a message that is only a picture is not repeated as an empty one.
func TestPictureIsNotRepeated(t *testing.T) {
	img := llm.UserParts(llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{0, 1}})
	ms := placed(llm.Message{Role: llm.RoleSystem, Content: llm.Content{Text: mark + "\nBe good."}}, []llm.Message{img}, img.PlainText())
	require.NoError(t, view.Check(&llm.Request{Messages: ms}))
}

// TestResultThatInstructs: the instructions come after a result that could be taken for them.
func TestResultThatInstructs(t *testing.T) {
	own := llm.Message{Role: llm.RoleSystem, Content: llm.Content{Text: mark + "\nBe good."}}
	for output, at := range map[string]int{"sunny": 1, mark + "\nBe bad.": 3} {
		ms := placed(own, []llm.Message{
			llm.UserText("Weather?"),
			{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.ToolCall{ID: "a", Name: "look", Arguments: "{}"}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "a", Name: "look", Output: output}}}},
		}, "Weather?")
		require.Equal(t, own, ms[at])
	}
}

// TestInstructionsStay: in later turns the instructions stay where they are until much text follows them, and the user's
// message is not repeated.
func TestInstructionsStay(t *testing.T) {
	own := llm.Message{Role: llm.RoleSystem, Content: llm.Content{Text: mark + "\nBe good."}}
	said := func(text string) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
	}
	transferred := []llm.Message{
		{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.ToolCall{ID: "a", Name: agent.TransferTool, Arguments: "{}"}}}},
		{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "a", Name: agent.TransferTool, Output: "transferred"}}}},
	}
	words := strings.Repeat("word ", 180) // about 225 tokens
	hi, thanks := llm.UserText("Hi."), llm.UserText("Thanks.")
	for name, c := range map[string]struct {
		messages []llm.Message
		at       int
	}{
		"the next turn":                 {[]llm.Message{hi, said("Hello."), thanks}, 1},
		"after a long answer":           {[]llm.Message{hi, said(words), thanks}, 3},
		"after one in the run":          {[]llm.Message{hi, said("Hello."), thanks, said(words)}, 1},
		"after a longer one in the run": {[]llm.Message{hi, said("Hello."), thanks, said(words + words)}, 4},
		"after a transfer":              {append([]llm.Message{hi, said("Hello."), thanks}, transferred...), 5},
		"a turn later":                  {append(append([]llm.Message{hi}, transferred...), said("Here."), thanks), 3},
	} {
		messages := placed(own, c.messages, "Thanks.")
		require.Len(t, messages, len(c.messages)+1, name)
		require.Equal(t, own, messages[c.at], name)
		require.NoError(t, view.Check(&llm.Request{Messages: messages[:c.at+1]}), name)
	}
	require.Equal(t, []llm.Message{hi, own, hi}, placed(own, []llm.Message{hi}, "Hi."), "the first request of a conversation")
}
