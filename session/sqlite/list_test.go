package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session/sqlite"
)

// TestPageIsPartOfAnIndex: nothing but the sessions of a page is read for it, and nothing
// is sorted.
func TestPageIsPartOfAnIndex(t *testing.T) {
	path := newFile(t)
	open(t, path)
	query := sqlite.ListOfUser
	for i := range 7 {
		query = strings.ReplaceAll(query, fmt.Sprint("?", i+1), "1")
	}
	plan := dump(t, path, "EXPLAIN QUERY PLAN "+query)
	require.Contains(t, plan, "SEARCH s USING INDEX session_updated (app=? AND user=? AND updated<?)")
	require.NotContains(t, plan, "B-TREE")
}
