package router_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
)

// TestHandles shows that a rule to a handle that there is not does not compile, nor one to a
// name; a program that differs in nothing else does.
func TestHandles(t *testing.T) {
	race.SkipPrograms(t)
	compile := func(name string) (string, error) {
		out, err := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "program"), "./testdata/"+name).CombinedOutput()
		return string(out), err
	}
	out, err := compile("typed")
	require.NoError(t, err, out)
	out, err = compile("misspelt")
	require.Error(t, err)
	require.Contains(t, out, "undefined: retuns")
	require.Contains(t, out, `cannot use "billing" (untyped string constant) as *router.Target value`)
}
