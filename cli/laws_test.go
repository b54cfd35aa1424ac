package cli_test

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
	"github.com/agentarbor/arbor/session/sqlite"
)

// lawful holds all sessions that a command has left in files against the laws of every
// log.
func (i invocation) lawful(t *testing.T, args []string) {
	t.Helper()
	var files []string
	if at := slices.Index(args, "--db"); at >= 0 && at+1 < len(args) {
		files = append(files, args[at+1])
	} else if i.home != "" {
		_ = filepath.WalkDir(i.home, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".db") {
				files = append(files, path)
			}
			return nil
		})
	}
	for _, file := range files {
		if found, _ := filepath.Glob(file); len(found) != 1 {
			continue
		}
		store, err := sqlite.Open(file)
		if err != nil {
			continue // the command has said so
		}
		all := must.Get(store.List(t.Context(), session.Key{}, session.Page{}))
		for _, info := range all {
			found := must.Get(integrity.Check(store.Load(t.Context(), info.Key, 0)))
			require.Empty(t, found, "%s in %s", info.Key, file)
		}
		require.NoError(t, store.Close())
	}
}
