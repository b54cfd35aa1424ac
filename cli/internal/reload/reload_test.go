package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// What cannot be used is told once, until something else can be told.
func TestProblemsAreToldOnce(t *testing.T) {
	var said bytes.Buffer
	f := &factory.Factory{Output: factory.Output{Name: "arbor", Streams: factory.Streams{Stderr: &said}}}
	dir := t.TempDir()
	root := must.Get(agent.New("front", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }))
	tree := must.Get(agent.NewTree(root))
	one, other := errors.New("a.md:1: wrong"), errors.New("b.md:2: wrong")
	results, called := []error{one, one, other, nil, other, other}, make(chan struct{})
	next := 0
	KeepUp(t.Context(), f, Watch(f, dir, false), &said, func() (*agent.Tree, error) {
		next++
		called <- struct{}{}
		return tree, results[next-1]
	})
	for i := range results {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.md"), fmt.Append(nil, i), 0o600))
		<-called
	}
	f.Close() // waits for what is being told
	const kept = "arbor: the files have changed and cannot be used; the tree stays as it was\n"
	require.Equal(t, kept+"a.md:1: wrong\n"+kept+"b.md:2: wrong\n"+"arbor: the files have changed: front with 1 agent from now on\n"+kept+"b.md:2: wrong\n", said.String())

	// Where nothing can be watched that is said, and the tree is run all the same.
	said.Reset()
	KeepUp(t.Context(), f, Watch(f, filepath.Join(dir, "no", "such"), false), &said, nil)
	require.Contains(t, said.String(), "changes of the files are not noticed: ")
	require.Nil(t, Watch(f, dir, true))
}
