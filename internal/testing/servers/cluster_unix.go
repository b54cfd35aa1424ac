//go:build unix

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Postgres is a temporary PostgreSQL server: a cluster in a folder of its own,
// with fsync, that trusts everybody who connects from this host. It ends with the
// test's process even if that is killed: a second process, which waits for the
// end of a pipe, stops the server then and removes the folder.
type Postgres struct {
	bin      string // the folder of PostgreSQL's programs
	dir      string
	port     int
	settings []string
	account  *syscall.Credential // nil: one's own

	watch *exec.Cmd
	pipe  io.Closer

	mu     sync.Mutex
	server *exec.Cmd
	ended  chan struct{} // closed when server has ended
}

// StartPostgres is [NewPostgres] for a program that is not a test. The program closes the server.
func StartPostgres(settings ...string) (_ *Postgres, err error) {
	p := &Postgres{settings: settings}
	if p.bin, err = findPrograms(); err != nil {
		return nil, err
	}
	if p.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "arbor-postgres-*"); err != nil {
		return nil, err
	}
	if err := p.Own(p.dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if err := p.startWatch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.run("initdb", "-D", p.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		return nil, err
	}
	for range 5 { // another program may take the port first
		if p.port, err = FreePorts(1); err != nil {
			return nil, err
		}
		if err = p.Start(); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func findPrograms() (bin string, err error) {
	missing := fmt.Errorf("PostgreSQL is %w: install it (Debian: apt-get install postgresql), or name a server in %s", errMissing, PostgresURL)
	if os.Getenv(PostgresURL) == none {
		return "", missing
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb", "/usr/local/pgsql/bin/initdb", "/opt/homebrew/opt/postgresql@*/bin/initdb"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(slices.Max(found)), nil
		}
	}
	return "", missing
}

// serverAccount returns who runs the server, since PostgreSQL refuses root.
func serverAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("an account for PostgreSQL is %w, which does not run as root: add the user postgres, or name a server in %s", errMissing, PostgresURL)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Own gives a file or folder to the account that runs the server.
func (p *Postgres) Own(path string) error {
	if p.account == nil {
		return nil
	}
	return os.Chown(path, int(p.account.Uid), int(p.account.Gid))
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// command prepares a program of PostgreSQL, or another one with a path. It gets
// no signals from the terminal: who presses Ctrl-C means the test.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	if !strings.Contains(name, "/") {
		name = filepath.Join(p.bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.account}
	return cmd
}

// startWatch starts the process that outlives this one for a moment. It uses
// nothing but the shell, and holds no stream that go test would wait for.
func (p *Postgres) startWatch() error {
	const script = `cat >/dev/null
pid=$(head -n 1 data/postmaster.pid 2>/dev/null)
if [ -n "$pid" ]; then
	kill -QUIT "$pid" 2>/dev/null
	while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
fi
cd / && rm -rf "$1"`
	p.watch = p.command("/bin/sh", "-c", script, "sh", p.dir)
	pipe, err := p.watch.StdinPipe()
	if err != nil {
		return err
	}
	p.pipe = pipe
	return p.watch.Start()
}

// Close ends the server and removes its folder.
func (p *Postgres) Close() error {
	return errors.Join(p.Stop(), p.pipe.Close(), p.watch.Wait())
}

// URL returns the address of a database for the server's superuser.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// Start starts the server again after [Postgres.Stop] or [Postgres.Kill], on the
// same port, and returns when it takes connections.
func (p *Postgres) Start() error {
	deadline := time.Now().Add(startTime)
	for {
		err := p.tryStart(deadline)
		// The processes of a server that was killed need a moment to see it.
		if err == nil || !strings.Contains(err.Error(), "still in use") || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollPeriod)
	}
}

func (p *Postgres) tryStart(deadline time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return errors.New("the PostgreSQL server is running")
	}
	args := []string{"-D", p.data(), "-p", strconv.Itoa(p.port)}
	for _, s := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=" + p.dir, "fsync=on",
		"shared_buffers=32MB", "max_connections=200", "log_min_messages=warning"}, p.settings...) {
		args = append(args, "-c", s)
	}
	cmd := p.command("postgres", args...)
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(ended)
	}()
	for !p.ready(cmd.Process.Pid) {
		select {
		case <-ended:
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the PostgreSQL server ended at once: %s", bytes.TrimSpace(said))
		case <-time.After(pollPeriod):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			<-ended
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the PostgreSQL server is not ready after %s: %s", startTime, bytes.TrimSpace(said))
		}
	}
	p.server, p.ended = cmd, ended
	return nil
}

// ready looks where pg_ctl looks: at line 8 of the server's file.
func (p *Postgres) ready(pid int) bool {
	file, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	lines := strings.Split(string(file), "\n")
	if err != nil || len(lines) < 8 || lines[0] != strconv.Itoa(pid) {
		return false
	}
	status := strings.TrimSpace(lines[7])
	return status == "ready" || status == "standby"
}

// Standby copies the cluster, as a standby has it. What it returns ends the server and promotes the copy in its place, at
// the same address: what was written since is lost.
func (p *Postgres) Standby() (promote func() error, err error) {
	copied := filepath.Join(p.dir, "standby")
	if err := p.run("pg_basebackup", "-D", copied, "-d", p.URL("postgres"), "-c", "fast", "-X", "stream", "--write-recovery-conf", "--no-sync"); err != nil {
		return nil, err
	}
	return func() error {
		if err := p.StopImmediately(); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(p.data()), os.Rename(copied, p.data())); err != nil {
			return err
		}
		if err := p.Start(); err != nil {
			return err
		}
		return p.run("pg_ctl", "promote", "-w", "-D", p.data())
	}, nil
}

// Dump saves a database in a file. What it returns restores the database from it.
func (p *Postgres) Dump(url string) (restore func() error, err error) {
	file := filepath.Join(p.dir, "dump")
	if err := p.run("pg_dump", "-d", url, "-Fc", "-f", file); err != nil {
		return nil, err
	}
	return func() error {
		return p.run("pg_restore", "-d", url, "--clean", "--single-transaction", file)
	}, nil
}

func (p *Postgres) run(name string, args ...string) error {
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// Stop shuts the server down as an administrator does in a hurry ("fast"): it
// ends all connections and writes everything to disk. It does nothing if the
// server does not run.
func (p *Postgres) Stop() error { return p.end(syscall.SIGINT) }

// StopImmediately has the server drop everything; the next start recovers.
func (p *Postgres) StopImmediately() error { return p.end(syscall.SIGQUIT) }

// Kill kills the server's main process with signal 9; the others end when they
// notice. The next start recovers.
func (p *Postgres) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Postgres) end(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	if err := p.server.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.server = nil
	return nil
}
