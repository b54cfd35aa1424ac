package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// localEndpoint is what pages call the address of an endpoint of the reader's.
const localEndpoint = "http://localhost:11434/v1"

// TestCommands runs the shell blocks of each page, in their order.
func TestCommands(t *testing.T) {
	race.SkipPrograms(t)
	bin := t.TempDir()
	built := sync.OnceValue(func() error {
		out, err := goCommand(t, root, "build", "-o", filepath.Join(bin, exe("arbor")), "./cmd/arbor").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	for _, p := range pages(t) {
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			dir, env := t.TempDir(), environment(t)
			env = append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			if slices.ContainsFunc(p.blocks, func(b block) bool { return b.lang == "go" && b.file() != "" }) {
				userModule(t, dir)
				env = append(env, "GOFLAGS=-mod=mod -buildvcs=false")
			}
			for _, b := range joined(p.blocks) {
				if name := filepath.Join(dir, filepath.FromSlash(b.file())); name != dir {
					require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
					require.NoError(t, os.WriteFile(name, []byte(b.code), 0o644))
				}
				if b.lang != "sh" || b.has("ci") {
					continue
				}
				require.NoError(t, built())
				runBlock(t, p, b, dir, slices.Clone(env))
			}
		})
	}
}

// joined makes one block of a block and those that go on with its shell.
func joined(blocks []block) (all []block) {
	for _, b := range blocks {
		last := len(all) - 1
		if b.lang != "sh" || !b.has("more") || last < 0 {
			all = append(all, b)
			continue
		}
		for all[last].lang != "sh" {
			last--
		}
		first := &all[last]
		first.code += "\n" + b.code
		if b.output != nil {
			output := *b.output
			if first.output != nil {
				output = *first.output + output
			}
			first.output = &output
		}
	}
	return all
}

func runBlock(t *testing.T, p *page, b block, dir string, env []string) {
	t.Helper()
	code := b.code
	if b.has("endpoint") {
		server := serve(t)
		code = strings.ReplaceAll(code, localEndpoint, server.URL())
		env = append(env, "OPENAI_BASE_URL="+server.URL())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-e", "-u", "-o", "pipefail", "-c", code)
	cmd.Env = env
	cmd.Dir = dir
	if b.has("repo") {
		cmd.Dir = root
	}
	cmd.WaitDelay = 5 * time.Second // for what the shell may have left behind
	out, err := cmd.CombinedOutput()
	status := "0"
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = fmt.Sprint(exit.ExitCode())
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, b.status(), status, "%s:%d printed:\n%s", p.path, b.line, out)
	if b.output != nil {
		requireOutput(t, *b.output, string(out))
	}
}

// serve starts an endpoint that has the offline model under every name.
func serve(t *testing.T) *endpoint.Server {
	t.Helper()
	model := offline.New()
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return model, true })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server
}

// goEnv is what the go command must keep when its home folder is another one.
var goEnv = sync.OnceValues(func() ([]string, error) {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, err
	}
	var env []string
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env, nil
})

// environment is a new machine's: no key, no network, an empty home.
func environment(t testing.TB) []string {
	t.Helper()
	env, err := goEnv()
	require.NoError(t, err)
	home, err := os.MkdirTemp("", "arbor-home-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	// Else the go command counts its uses in the home folder, even after it has
	// ended, and may do so while the folder is removed.
	telemetry := filepath.Join(home, ".config", "go", "telemetry")
	require.NoError(t, os.MkdirAll(telemetry, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600))
	return append([]string{
		"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		"GOPROXY=off", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "GOWORK=off",
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost",
	}, env...)
}

func goCommand(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = environment(t)
	return cmd
}

func exe(name string) string {
	if os.PathSeparator == '\\' {
		return name + ".exe"
	}
	return name
}

// TestCommandsOfCI finds the commands that only .ci/run executes.
func TestCommandsOfCI(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "steps"))
	require.NoError(t, err)
	found := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "sh" || !b.has("ci") {
				continue
			}
			for line := range strings.Lines(b.code) {
				found++
				require.Contains(t, string(script), strings.TrimSpace(line), "%s:%d", p.path, b.line)
			}
		}
	}
	require.NotZero(t, found)
}
