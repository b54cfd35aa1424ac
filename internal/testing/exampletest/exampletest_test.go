package exampletest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryExample: each example is run against an endpoint.
func TestEveryExample(t *testing.T) {
	folders, err := os.ReadDir("../../../examples")
	require.NoError(t, err)
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		tests, err := filepath.Glob(filepath.Join("../../../examples", folder.Name(), "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range tests {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || bytes.Contains(text, []byte("exampletest.Endpoint("))
		}
		require.True(t, found, "no test runs examples/%s against an endpoint: see exampletest.Endpoint", folder.Name())
	}
}
