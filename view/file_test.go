package view_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// TestFilled: the messages of a view have the bytes of their files whenever they are asked for,
// also when some were asked for before, and others were dropped.
func TestFilled(t *testing.T) {
	load := func(_ context.Context, digest string) (*event.File, []byte, error) {
		if digest == "there" {
			return &event.File{}, []byte("bytes"), nil
		}
		return nil, nil, errors.New("gone")
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := view.New(tree(t).Node("support"), rapid.SampledFrom([]view.Policy{view.Full(), view.LastTurns(2)}).Draw(rt, "policy"), "")
		for i := range rapid.IntRange(1, 20).Draw(rt, "events") {
			c := llm.Content{Text: "Hello"}
			if digest := rapid.SampledFrom([]string{"", "", "", "there", "gone"}).Draw(rt, "file"); digest != "" {
				c.Parts = []llm.Part{llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Name: "a.png", Digest: digest}}
			}
			v.Apply(&event.Event{Seq: int64(i + 1), Agent: "user", Data: &event.User{Content: c}})
			if rapid.Bool().Draw(rt, "ask") {
				var want []llm.Message
				for _, m := range v.Messages() {
					m.Parts = slices.Clone(m.Parts)
					for i, part := range m.Parts {
						if file, ok := part.(llm.Media); ok && file.Digest == "there" {
							file.Data, file.Digest = []byte("bytes"), ""
							m.Parts[i] = file
						} else if ok {
							m.Parts[i] = llm.TextPart{Text: "(the file a.png cannot be read)"}
						}
					}
					want = append(want, m)
				}
				require.Equal(rt, want, v.Filled(t.Context(), load))
			}
		}
	})
}
