package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/redact"
	"github.com/agentarbor/arbor/internal/visible"
)

// Stdio is a server that runs as a subprocess and exchanges messages over its standard input and output.
type Stdio struct {
	// Command is the program: a path, or a name that is searched in the PATH of this process.
	Command string
	Args    []string
	// Env is the complete environment of the subprocess, as NAME=VALUE. The subprocess inherits no variable of this
	// process. Programs that start others need a PATH in it.
	Env []string
	// Dir is the working directory of the subprocess. Defaults to that of this process.
	Dir string
}

func (p Stdio) check() error {
	if p.Command == "" {
		return errors.New("the command is empty")
	}
	for _, e := range p.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return errors.New("a variable of the environment is not NAME=VALUE")
		}
	}
	return nil
}

func (p Stdio) dial(s *Server, probe time.Duration) (sdk.Transport, func() string, error) {
	cmd := exec.Command(p.Command, p.Args...)
	cmd.Env, cmd.Dir = append([]string{}, p.Env...), p.Dir // nil would pass on our environment
	said := &stderr{logger: s.logger}
	cmd.Stderr, cmd.WaitDelay = said, time.Second
	ownGroup(cmd)
	return &process{cmd: cmd, logger: s.logger, probe: probe}, said.last, nil
}

// process is the transport, and then the connection, of a subprocess. The SDK's own transport ends the connection at
// the first line that is not a message and at one that is too long, and never ends it while the server does not read.
type process struct {
	cmd    *exec.Cmd
	logger *slog.Logger
	in     *os.File // the server's input
	out    *os.File
	reader *bufio.Reader
	probe  time.Duration
	asked  atomic.Pointer[jsonrpc.ID] // the id of discover until the answer arrives
	until  time.Time                  // when discover is refused; set before asked
	write  sync.Mutex
	closed sync.Once
	err    error
}

// How long a server may take to read a message, and to end after its input was closed or after a signal.
const (
	writeTimeout = 10 * time.Second
	endTimeout   = 2 * time.Second
)

func (p *process) Connect(context.Context) (sdk.Connection, error) {
	in, toServer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), toServer.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout, p.in, p.out = in, out, toServer, fromServer
	err = p.cmd.Start()
	_, _ = in.Close(), out.Close() // the server has its own copies
	if err != nil {
		_, _ = toServer.Close(), fromServer.Close()
		return nil, &startError{err}
	}
	p.reader = bufio.NewReaderSize(fromServer, 64<<10)
	return p, nil
}

func (p *process) SessionID() string { return "" }

func (p *process) Write(ctx context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	p.write.Lock()
	defer p.write.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == discover && p.probe > 0 {
		p.until = time.Now().Add(p.probe)
		p.asked.Store(&r.ID)
		_ = p.out.SetReadDeadline(p.until) // also for the current read
	}
	noteSent(ctx)
	_ = p.in.SetWriteDeadline(time.Now().Add(writeTimeout)) // a pipe without deadlines may block the write
	_, err = p.in.Write(append(b, '\n'))
	return err
}

// Read returns the next message. It skips a line that is not a message, such as a greeting that the server prints. A
// message that is too long becomes an error of the call that it answers.
func (p *process) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if m := p.unanswered(); m != nil {
			return m, nil
		}
		line, cut, err := p.line()
		if cut > 0 {
			if m := tooLong(line, cut); m != nil {
				return m, nil
			}
		} else if at := bytes.IndexByte(line, '{'); at >= 0 {
			if m, err := jsonrpc.DecodeMessage(line[at:]); err == nil {
				if r, ok := m.(*jsonrpc.Response); ok && p.asked.Load() != nil && r.ID == *p.asked.Load() {
					p.asked.Store(nil)
				}
				return m, nil
			}
		}
		if len(bytes.TrimSpace(line)) > 0 {
			p.logger.Debug("an MCP server has written a line that is no message", "line", visible.Cut(string(line), 200))
		}
		if err != nil {
			return nil, err
		}
	}
}

// unanswered waits until the server writes. If its answer to discover is overdue, unanswered returns the answer of a
// server that does not know the method.
func (p *process) unanswered() jsonrpc.Message {
	if p.asked.Load() != nil {
		_ = p.out.SetReadDeadline(p.until)
	}
	_, err := p.reader.Peek(1)
	_ = p.out.SetReadDeadline(time.Time{}) // a line that has begun is read completely
	id := p.asked.Load()
	if id == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	p.asked.Store(nil)
	return &jsonrpc.Response{ID: *id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server says nothing to " + discover}}
}

// edge is the number of bytes that are kept of both ends of a line that is too long.
const edge = 4 << 10

// line returns the next line. If the line is too long, cut is its length and line contains only its ends.
func (p *process) line() (line []byte, cut int, err error) {
	chunk, err := p.reader.ReadSlice('\n')
	if err == nil {
		return chunk, 0, nil // valid until the next read; decoding copies it
	}
	line = append(line, chunk...)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = p.reader.ReadSlice('\n')
		if cut == 0 && len(line)+len(chunk) > maxMessage {
			line, cut = append([]byte(nil), line[:edge]...), len(line) // so that the rest can be freed
		}
		if cut += min(cut, 1) * len(chunk); cut > 0 && len(line)+len(chunk) > 4*edge {
			line = append(line[:edge], line[max(edge, len(line)-edge):]...)
			chunk = chunk[max(0, len(chunk)-edge):]
		}
		line = append(line, chunk...)
	}
	return line, cut, err
}

var idOf = lazyregexp.New(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,|"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// tooLong returns an error response instead of an answer that is too long, or nil if the ends of the line do not
// contain the id of the call.
func tooLong(line []byte, n int) jsonrpc.Message {
	m := idOf.Get().FindSubmatch(line)
	if m == nil {
		return nil
	}
	decoded, err := jsonrpc.DecodeMessage(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"the answer has %d bytes, and at most %d are read"}}`,
		append(m[1], m[2]...), n, maxMessage))
	if err != nil {
		return nil
	}
	return decoded
}

// Close ends the subprocess and the processes that it started. It closes its input, then sends a signal, and then kills
// it.
func (p *process) Close() error {
	p.closed.Do(func() {
		_ = p.in.Close()
		done := make(chan struct{})
		go func() {
			p.err = p.cmd.Wait()
			close(done)
		}()
		for _, end := range []func(){func() {}, func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }} {
			end()
			select {
			case <-done:
			case <-time.After(endTimeout):
				continue
			}
			break
		}
		endGroup(p.cmd)
		<-done
		_ = p.out.Close()
	})
	return nil
}

// stderr logs the lines that a server writes to standard error, and keeps the last line.
type stderr struct {
	logger *slog.Logger
	mu     sync.Mutex
	part   []byte
	line   string
}

func (e *stderr) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		e.part = append(e.part, line[:min(len(line), edge-min(edge, len(e.part)))]...)
		if b = rest; ended {
			e.flush()
		}
	}
	return n, nil
}

func (e *stderr) flush() {
	if text := strings.TrimSpace(string(e.part)); text != "" {
		e.line = text
		e.logger.Debug("an MCP server has written to standard error", "line", text)
	}
	e.part = e.part[:0]
}

// last returns the last line for people, without anything that looks like a secret.
func (e *stderr) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	if e.line == "" {
		return ""
	}
	return "; it said: " + visible.Cut(visible.Line(redact.Text(e.line)), 300)
}

var _ io.Writer = (*stderr)(nil)
