package servers_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
)

func query(t *testing.T, url, sql string) (out string, err error) {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	err = conn.QueryRow(t.Context(), sql).Scan(&out)
	return out, err
}

func TestDatabase(t *testing.T) {
	a, b := servers.Database(t), servers.Database(t)
	require.NotEqual(t, a, b)
	for _, url := range []string{a, b} {
		out, err := query(t, url, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'")
		require.NoError(t, err)
		require.Equal(t, "0", out)
	}
}

func TestPostgresStopsAndStarts(t *testing.T) {
	p := servers.NewPostgres(t, "max_connections=17")
	url := p.Database(t)
	for _, end := range []func() error{p.Stop, p.StopImmediately, p.Kill} {
		out, err := query(t, url, "SELECT current_setting('max_connections') || current_setting('fsync')")
		require.NoError(t, err)
		require.Equal(t, "17on", out)
		require.NoError(t, end())
		_, err = query(t, url, "SELECT ''")
		require.Error(t, err)
		require.NoError(t, p.Start())
		require.ErrorContains(t, p.Start(), "is running")
	}
}

// TestQuiet: it waits for the application of that name, and for no other.
func TestQuiet(t *testing.T) {
	url := servers.Database(t)
	t.Setenv("PGAPPNAME", "one")
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Setenv("PGAPPNAME", "")
	require.NoError(t, servers.Quiet(t.Context(), url, "another"))
	ended := make(chan error, 1)
	go func() { ended <- servers.Quiet(t.Context(), url, "one") }()
	select {
	case <-ended:
		require.Fail(t, "one is still connected")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, <-ended)
}

// TestKilledTest: a test's process that is killed leaves no server and no folder.
func TestKilledTest(t *testing.T) {
	if os.Getenv("ARBOR_TEST_ROLE") == "killed" {
		p := servers.NewPostgres(t)
		dir, err := query(t, p.URL("postgres"), "SHOW data_directory")
		require.NoError(t, err)
		fmt.Println("\nDIR " + dir)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTest$", "-test.v") // which says so if it is skipped
	cmd.Env = append(os.Environ(), "ARBOR_TEST_ROLE=killed")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	dir := ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		if strings.Contains(lines.Text(), "SKIP") {
			t.Skip("PostgreSQL is missing")
		}
		dir, _ = strings.CutPrefix(lines.Text(), "DIR ")
		if dir == lines.Text() {
			dir = ""
		}
	}
	require.DirExists(t, dir)
	pid, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	must.Wait(t, func() bool {
		_, folder := os.Stat(filepath.Dir(dir))
		process := exec.Command("kill", "-0", strings.Fields(string(pid))[0]).Run()
		return os.IsNotExist(folder) && process != nil
	})
}
