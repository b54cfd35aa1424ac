package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain plays the roles in which the command starts itself, since the test's binary is started in its place.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == "endpoint" || os.Args[1] == "adk") {
		main()
	}
	os.Exit(m.Run())
}

// TestServers proves that each server passes on every token by itself. It measures nothing: too little runs.
func TestServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processor time and the memory of a process are read from /proc, which only Linux has")
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-streams", "10", "-window", "1s", "-servers", "arbor,arbor-memory,chat,adk"}, &out))
	require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 5, out.String())
	for _, bad := range [][]string{{"-streams", "0"}, {"-streams", "many"}, {"-servers", "none"}} {
		require.ErrorContains(t, run(t.Context(), append(bad, "-window", "1s"), &out), bad[1])
	}
}
