package llmagent_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// TestFuncSavesFiles: wherever the run is cut off, the function gets the files that it has
// saved again, and each is in the log once.
func TestFuncSavesFiles(t *testing.T) {
	for cut := range 7 {
		c := newCoded(t, func(s *llmagent.Step) error {
			if _, err := s.SaveFile("..", "", nil); !errors.Is(err, agent.ErrBadInput) {
				return errors.New("a bad name is saved")
			}
			for _, words := range []string{"first", "second"} {
				f, err := s.SaveFile(words+".txt", "", []byte(words))
				if err != nil {
					return err
				}
				data, err := s.ReadFile(f.Name)
				if err != nil {
					return err
				}
				if err := s.Say(string(data) + " " + f.String()); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		n := 0
		_, _ = c.turn(hears("Go"), func(*event.Event) bool { n++; return n > cut })
		_, err := c.turn(resumes(), nil)
		require.NoError(t, err)
		r, err := runner.New(c.tree, c.store)
		require.NoError(t, err)
		var kinds []string
		for e, err := range r.History(t.Context(), key) {
			require.NoError(t, err)
			if e.Type() == event.TypeFile || e.Type() == event.TypeText {
				kinds = append(kinds, e.Type())
			}
		}
		require.Equal(t, []string{"file", "text", "file", "text"}, kinds, cut)
	}
}
