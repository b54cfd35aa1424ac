package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"time"
)

// fleet contains the replicas. Each is a process that starts again when it has ended, as in production.
type fleet struct {
	config
	token string
	ctx   context.Context
	stop  context.CancelFunc
	runs  sync.WaitGroup

	mu    sync.Mutex
	up    []*process // by number; nil while it is down
	last  int        // the last replica that was killed
	fails error      // why a replica cannot start
}

type process struct {
	cmd     *exec.Cmd
	address string
}

// downFor is the time for which a killed replica is down.
const downFor = time.Second

// newFleet starts the replicas and returns when all of them are up. The first one creates the tables before the others
// start.
func newFleet(ctx context.Context, c config) (*fleet, error) {
	f := &fleet{config: c, token: rand.Text(), up: make([]*process, c.replicas)}
	f.ctx, f.stop = context.WithCancel(ctx)
	for i := range f.up {
		p, err := f.start()
		if err != nil {
			f.close()
			return nil, err
		}
		f.up[i] = p
		f.runs.Go(func() { f.keep(i, p) })
	}
	return f, nil
}

// start starts a replica and returns when it prints its address.
func (f *fleet) start() (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(f.ctx, program, "serve", "--addr", "127.0.0.1:0", "--apis", "api", "--db", f.postgres, "--redis", f.redis)}
	p.cmd.Env = append(os.Environ(), replicaVariable+"=1", "ARBOR_TOKEN="+f.token)
	var warned bytes.Buffer
	p.cmd.Stderr = &warned
	said, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	in := bufio.NewScanner(said)
	if !in.Scan() {
		err := p.cmd.Wait()
		return nil, fmt.Errorf("a replica ended at once: %w: %s", err, bytes.TrimSpace(warned.Bytes()))
	}
	at, err := url.Parse(in.Text())
	if err != nil || at.Host == "" {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, fmt.Errorf("a replica says %q instead of where it is", in.Text())
	}
	p.address = at.Host
	return p, nil
}

// keep waits for the end of a replica and starts it again, until the fleet is closed.
func (f *fleet) keep(i int, p *process) {
	for {
		_ = p.cmd.Wait() // it was killed, or its output says why it ended
		f.mu.Lock()
		f.up[i] = nil
		f.mu.Unlock()
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(downFor):
		}
		next, err := f.start()
		f.mu.Lock()
		if err != nil && f.ctx.Err() == nil {
			f.fails = err
		}
		f.up[i] = next
		f.mu.Unlock()
		if err != nil {
			return
		}
		p = next
	}
}

// addresses returns the addresses of the replicas that are up.
func (f *fleet) addresses() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.up {
		if p != nil {
			all = append(all, p.address)
		}
	}
	return all
}

// killSome kills one replica after the other until the time is over. It returns the number of kills when the clients
// are done.
func (f *fleet) killSome(out io.Writer, over time.Time, done <-chan struct{}) (n int, err error) {
	tick := time.NewTicker(f.kills)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return n, nil
		case <-tick.C:
		}
		if time.Now().After(over) {
			continue
		}
		name, err := f.killOne()
		if err != nil {
			return n, err
		}
		n++
		fmt.Fprintf(out, "killed %s\n", name)
	}
}

// killOne kills the next replica that is up, without a warning, and returns its name.
func (f *fleet) killOne() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return "", f.fails
	}
	for range f.up {
		f.last = (f.last + 1) % len(f.up)
		if p := f.up[f.last]; p != nil {
			return fmt.Sprintf("replica %d", f.last+1), p.cmd.Process.Kill()
		}
	}
	return "", errors.New("no replica is up that could be killed: leave more time between two kills")
}

// close stops the replicas.
func (f *fleet) close() {
	f.stop()
	f.runs.Wait()
}
