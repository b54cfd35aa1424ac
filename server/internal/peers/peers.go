// Package peers runs clients of the server's protocols from npm and PyPI, for tests of the APIs. If they are not
// installed, tests are skipped, and fail in CI.
package peers

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/peerfolder"
)

// OpenAI returns the folder of the clients of OpenAI's APIs.
func OpenAI() peerfolder.Folder {
	_, file, _, _ := runtime.Caller(0)
	return peerfolder.Folder{Path: filepath.Dir(file), Name: "server/internal/peers", Of: "OpenAI's protocols", Probe: "openai"}
}

// CopilotKit returns the folder of the page and the runtime of CopilotKit.
func CopilotKit() peerfolder.Folder {
	f := OpenAI()
	return peerfolder.Folder{Path: filepath.Join(f.Path, "copilotkit"), Name: f.Name + "/copilotkit", Of: "CopilotKit", Probe: "@copilotkit/react-core"}
}

// Run starts a client with a JSON value as its input, and decodes its output into the value that out points to.
func Run(t testing.TB, in, out any, command ...string) {
	t.Helper()
	input, err := json.Marshal(in)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	// Python clients load the certificates of all authorities for each instance. An empty folder spares that: no peer uses TLS.
	cmd.Env = append(os.Environ(), "NO_PROXY=*", "LANGSMITH_TRACING=false", "SSL_CERT_FILE=", "SSL_CERT_DIR="+t.TempDir())
	output, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, out), "%s", output)
}
