package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisURL is the environment variable that names a Redis server for the tests, for
// example redis://localhost:6379. Without it a temporary server is started, and with
// "none" the tests find no Redis at all.
const RedisURL = "ARBOR_TEST_REDIS"

// Redis is a temporary Redis server without persistence: it loses its data when it stops. It ends with the test's
// process even if that is killed: the shell that starts the server waits for the end of a pipe, then kills the server
// and removes its folder.
type Redis struct {
	program  string
	dir      string
	port     int
	settings []string

	mu     sync.Mutex
	shell  *exec.Cmd // nil if the server does not run
	output *bytes.Buffer
	pipe   io.Closer
}

// sharedRedis is the server that all tests of a binary use; see shared.
var sharedRedis = sync.OnceValues(func() (*Redis, error) { return StartRedis() })

// SharedRedis returns the URL of a Redis server that all tests of the binary share: the
// one that [RedisURL] names, or a temporary one, which is started now. Tests use names
// of their own in it. The test is skipped if there is no Redis, and fails instead if CI
// is true.
func SharedRedis(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(RedisURL); given != "" && given != none {
		return given
	}
	r, err := sharedRedis()
	must(t, err)
	return r.URL()
}

// NewRedis starts a temporary Redis server of the test's own, which it may stop, kill
// and start again. Settings are arguments of redis-server. It is not the server that
// [RedisURL] names.
func NewRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r, err := StartRedis(settings...)
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("end the temporary Redis server: %v", err)
		}
	})
	return r
}

// StartRedis is [NewRedis] for a program that is not a test. The program closes the server.
func StartRedis(settings ...string) (_ *Redis, err error) {
	r := &Redis{settings: settings}
	if r.program, err = exec.LookPath("redis-server"); err != nil || os.Getenv(RedisURL) == none {
		return nil, fmt.Errorf("redis-server is %w: install it (Debian: apt-get install redis-server), or name a server in %s", errMissing, RedisURL)
	}
	if r.dir, err = os.MkdirTemp("", "arbor-redis-*"); err != nil {
		return nil, err
	}
	for range 5 { // another program may take the port first
		if r.port, err = FreePorts(1); err != nil {
			break
		}
		if err = r.Start(); err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(r.dir))
}

// Address returns the server's host and port.
func (r *Redis) Address() string { return address(r.port) }

// URL returns the server's address as a URL without a password.
func (r *Redis) URL() string { return "redis://" + r.Address() }

// Start starts the server again, on the same port and empty. It returns when the server
// answers.
func (r *Redis) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shell != nil {
		return errors.New("the Redis server runs already")
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil { // the shell of an earlier start has removed it
		return err
	}
	const script = `dir=$1; shift; trap "" INT TERM HUP; "$@" & read _; kill -9 $!; wait; rm -rf "$dir"`
	args := append([]string{"-c", script, "sh", r.dir, r.program, "--port", fmt.Sprint(r.port), "--bind", "127.0.0.1", "--dir", r.dir,
		"--save", "", "--appendonly", "no"}, r.settings...)
	r.output = new(bytes.Buffer)
	shell := exec.Command("sh", args...)
	shell.Stdout, shell.Stderr = r.output, r.output
	pipe, err := shell.StdinPipe()
	if err != nil {
		return err
	}
	if err := shell.Start(); err != nil {
		return errors.Join(err, pipe.Close())
	}
	r.shell, r.pipe = shell, pipe
	for deadline := time.Now().Add(startTime); !r.answers(); time.Sleep(pollPeriod) {
		if time.Now().After(deadline) {
			err := r.kill()
			return errors.Join(fmt.Errorf("redis-server does not answer: %s", bytes.TrimSpace(r.output.Bytes())), err)
		}
	}
	return nil
}

// answers reports whether the server replies to a command; an error is a reply, too.
func (r *Redis) answers() bool {
	conn, err := net.DialTimeout("tcp", r.Address(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	return err == nil && !strings.HasPrefix(string(reply[:n]), "-LOADING")
}

// Kill kills the server, which loses its data. It returns when the server has ended.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kill()
}

func (r *Redis) kill() error {
	if r.shell == nil {
		return nil
	}
	err := errors.Join(r.pipe.Close(), r.shell.Wait())
	r.shell = nil
	return err
}

// Close ends the server and removes its folder.
func (r *Redis) Close() error { return errors.Join(r.Kill(), os.RemoveAll(r.dir)) }
