package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// TestCheckUserNames: what is beside the data of a file must be text as well, or
// logs could not keep it as it is.
func TestCheckUserNames(t *testing.T) {
	media := func(change func(*llm.Media)) llm.Message {
		m := llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", Data: []byte{0xff}, Name: "notes.txt"}
		change(&m)
		return llm.UserParts(m)
	}
	require.NoError(t, llm.CheckUser(media(func(*llm.Media) {})))
	for name, change := range map[string]func(*llm.Media){
		"name": func(m *llm.Media) { m.Name = "\xff" },
		"type": func(m *llm.Media) { m.MediaType = "text/\xff" },
		"url":  func(m *llm.Media) { m.Data, m.URL = nil, "https://example.com/\xff" },
	} {
		require.ErrorContains(t, llm.CheckUser(media(change)), "part 0 of the message has a name, media type or URL that is not valid UTF-8", name)
	}
}
