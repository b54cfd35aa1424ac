package cli_test

import (
	"go/parser"
	gotoken "go/token" // token is a constant of this package
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
)

// The root imports the nouns, a noun imports what all nouns share, and no arrow runs back up.
func TestNounsImportNoNoun(t *testing.T) {
	shared := []string{"watch", "factory", "reload", "remote", "prompt", "turn"} // each imports only what stands before it
	files := must.Get(filepath.Glob("internal/*/*.go"))
	require.NotEmpty(t, files)
	for _, path := range files {
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err)
		own := slices.Index(shared, filepath.Base(filepath.Dir(path)))
		for _, i := range file.Imports {
			_, name, below := strings.Cut(strings.Trim(i.Path.Value, `"`), "/cli/internal/")
			if at := slices.Index(shared, name); below {
				require.True(t, at >= 0 && (own < 0 || at < own), "%s imports %s", path, name)
			}
		}
	}
}
