package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// machine simulates a machine that a person uses: it takes the ports of well-known programs, sets another home folder,
// and sets variables of the shell and of other programs. A test that depends on any of these fails.
type machine struct {
	home      string
	env       []string
	listeners []net.Listener
}

// ports are the default ports of this project and of the programs that it works with: the examples, the command,
// Ollama, PostgreSQL, Redis, Temporal, gRPC, OpenTelemetry, Prometheus and development servers.
var ports = []string{"8080", "8420", "11434", "5432", "6379", "7233", "8233", "50051", "4317", "4318", "9090", "3000", "8000"}

// files are the files in the home folder.
var files = map[string]string{
	".gitconfig": "[commit]\n\tgpgsign = true\n[core]\n\tautocrlf = true\n\thooksPath = /nowhere\n[init]\n\tdefaultBranch = other\n" +
		"[user]\n\tuseConfigOnly = true\n[diff]\n\tnoprefix = true\n[color]\n\tui = always\n",
	".config/go/telemetry/mode": "off", // otherwise the go command writes there
	".psqlrc":                   "\\set QUIET off\n\\x on\n",
}

func newMachine() (*machine, error) {
	home, err := os.MkdirTemp("", "home-")
	if err != nil {
		return nil, err
	}
	m := &machine{home: home}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return nil, err
		}
	}
	for _, port := range ports {
		for _, host := range []string{"127.0.0.1", "::1"} {
			l, err := net.Listen("tcp", net.JoinHostPort(host, port))
			if err != nil {
				continue // another program uses it, or there is no IPv6
			}
			m.listeners = append(m.listeners, l)
			go refuse(l)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	names := []string{"GOCACHE", "GOENV", "GOMODCACHE", "GOPATH", "GOROOT"} // these are below the home folder
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		m.env = append(m.env, names[i]+"="+value)
	}
	m.env = append(m.env, "HOME="+home, "XDG_CACHE_HOME="+cache, "XDG_STATE_HOME="+home+"/state", "XDG_CONFIG_HOME="+home+"/.config",
		"XDG_DATA_HOME="+home+"/data", "TZ=Pacific/Kiritimati", "LANG=tr_TR.UTF-8", "TERM=xterm-256color", "COLUMNS=37", "NO_COLOR=1",
		"OPENAI_BASE_URL=http://127.0.0.1:11434/v1", "OPENAI_API_KEY=sk-somebody", "OPENAI_MODEL=somebody", "OPENAI_API=responses",
		"ARBOR_TOKEN=somebody-s-token-of-26-char", "SERVICE_TOKENS=somebody", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318",
		"PGHOST=127.0.0.1", "PGPORT=5432", "PGUSER=somebody", "PGPASSWORD=secret", "PGDATABASE=somebody", "EDITOR=false", "PAGER=false")
	return m, nil
}

// refuse closes connections at once.
func refuse(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// untouched returns an error if a test wrote to the home folder.
func (m *machine) untouched() error {
	var all []error
	_ = filepath.WalkDir(m.home, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(m.home, path)
		if _, ours := files[filepath.ToSlash(name)]; err == nil && !entry.IsDir() && !ours {
			all = append(all, fmt.Errorf("a test wrote ~/%s; a test must give programs a home folder", name))
		}
		return nil
	})
	return errors.Join(all...)
}

func (m *machine) close() {
	for _, l := range m.listeners {
		_ = l.Close()
	}
	_ = os.RemoveAll(m.home)
}
