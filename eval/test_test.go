package eval_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// recorder is a test that keeps what it is told.
type recorder struct {
	ctx  context.Context
	name string
	told *[]string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Errorf(format string, args ...any) {
	*r.told = append(*r.told, r.name+"error: "+fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	*r.told = append(*r.told, r.name+"fatal: "+fmt.Sprintf(format, args...))
}
func (r *recorder) Run(name string, f func(*recorder)) bool {
	f(&recorder{r.ctx, name + ": ", r.told})
	return true
}

func TestTest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	root := desk(t, func(string) llm.Model { return scripted.Always("m", scripted.Reply(scripted.Text("hello"))) })
	told := func(opts ...eval.Option) (all []string) {
		eval.Test(&recorder{ctx: t.Context(), told: &all}, root, file, opts...)
		return all
	}
	write("- {say: one, path: support, says: hello}\n- {say: two, path: support}")
	eval.Test(t, root, file)
	require.Empty(t, told())

	write("- {say: one, path: support > tech}\n- turns:\n  - {say: two, path: support}\n  - {say: three, says: bye}\n  max: {modelCalls: 1}")
	require.Equal(t, []string{
		"one: error: " + file + `:1: "one": path: got support, want support > tech`,
		"two: error: " + file + `:4: "three": says: "bye" is not in "hello"`,
		"two: error: " + file + `:2: max: 2 answers of models, at most 1`,
	}, told())
	require.Equal(t, "one: error: "+file+`:1: "one": path: got support, want support > tech (repetition 2 of 3)`, told(eval.Repeat(3))[1])

	write("- {say: one, path: support > nobody}")
	require.Equal(t, []string{"fatal: " + file + `:1: path: no agent of the tree has the name "nobody"; there are human, support, billing, tech`}, told())
	write("- {say: one}")
	require.Contains(t, told()[0], "fatal: "+file+":1: the case expects nothing")
	write("- {say: one, path: support}")
	require.Equal(t, []string{"one: fatal: eval: option 0 is nil"}, told(nil))
}
