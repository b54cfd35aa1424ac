package llmagent

import (
	"testing"

	"github.com/stretchr/testify/require"

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
