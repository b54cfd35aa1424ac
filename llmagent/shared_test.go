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
