// Package testserver starts a Temporal server for tests. It builds the server from the module devserver next to it on
// first use, which takes minutes, and keeps it in the user's cache folder. If it cannot, it skips the test with the
// reason; with CI=true the test fails.
//
// It is only for tests.
package testserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/agentarbor/arbor/internal/testing/servers"
)

// Server is the Temporal server of a test. It ends with the test's process, even if that is killed.
type Server struct {
	program string
	file    string
	port    int

	mu     sync.Mutex
	cmd    *exec.Cmd
	alive  io.Closer // closing it ends the server
	output *output
}

// output is the output of a running server.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

const startTime = time.Minute

// New starts a server that stores its data in memory or, if it is durable, in a file, so that it can be killed.
func New(t testing.TB, durable bool) *Server {
	t.Helper()
	program, err := built()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &Server{program: program}
	if durable {
		s.file = filepath.Join(t.TempDir(), "temporal.db")
	}
	for range 5 { // another program may take a port first
		if s.port, err = servers.FreePorts(8); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			t.Cleanup(func() {
				if err := s.Kill(); err != nil {
					t.Errorf("end the Temporal server: %v", err)
				}
			})
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// Shared returns a server in memory that all tests of the binary share. Each test uses its own task queues and
// sessions.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = New(keep{t}, false)
	}
	return shared.server
}

var shared struct {
	sync.Mutex
	server *Server
}

// keep is a test whose server runs until the process ends.
type keep struct{ testing.TB }

func (keep) Cleanup(func()) {}

// built returns the path of the program. It builds the program unless that was built before from the same sources.
var built = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "devserver")
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version())
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a Temporal server cannot be built: %w", err)
	}
	folder = filepath.Join(folder, "arbor", "devserver")
	program := filepath.Join(folder, hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	fresh := fmt.Sprintf("%s.%d", program, os.Getpid())
	build := exec.Command("go", "build", "-o", fresh, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("a Temporal server cannot be built, its modules have to be there: %w: %.300s", err, bytes.TrimSpace(out))
	}
	return program, os.Rename(fresh, program)
})

// Address returns the address for clients.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// PID returns the id of the server's process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Start starts the server again after [Server.Kill], on the same ports, and returns when it serves.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return errors.New("the Temporal server is running")
	}
	cmd := exec.Command(s.program, "-port", strconv.Itoa(s.port), "-file", s.file, "-log", "fatal")
	s.output = new(output)
	cmd.Stderr = s.output
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.alive = cmd, alive
	for deadline := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		if err = s.serves(); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the Temporal server does not serve: %w: %.300s", err, s.output), s.kill())
		}
	}
}

func (s *Server) serves() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, s.options())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.DescribeTaskQueue(ctx, "none", 1)
	return err
}

func (s *Server) options() client.Options {
	return client.Options{HostPort: s.Address(), Logger: quiet{}}
}

// Kill kills the server with SIGKILL.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait() // the error says that it was killed
	_ = s.alive.Close()
	s.cmd = nil
	return err
}

// Client returns a client that ends with the test.
func (s *Server) Client(t testing.TB) client.Client {
	t.Helper()
	c, err := Dial(s.Address())
	if err != nil {
		t.Fatalf("%v; the server has said: %.3000s", err, s.output)
	}
	t.Cleanup(c.Close)
	return c
}

// Dial connects to the server of another process.
func Dial(address string) (client.Client, error) {
	return client.Dial(client.Options{HostPort: address, Logger: quiet{}})
}

// quiet is a logger that logs nothing.
type quiet struct{}

var _ log.Logger = quiet{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
