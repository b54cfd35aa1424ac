package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialer creates clients of one Redis. A client that failed is closed and replaced by a new one, so that go-redis
// does not retry in the background.
type dialer struct{ options *driver.Options }

// newDialer parses a URL. The error contains no part of the URL, because any part may be a password that is not
// escaped.
func newDialer(url string) (*dialer, error) {
	opts, err := driver.ParseURL(url)
	if err != nil {
		return nil, errors.New("redis: the URL cannot be read: write it as redis://USER:PASSWORD@HOST:6379/0, as rediss:// with TLS, or as unix:///PATH, " +
			"and write special characters of the password as %XX")
	}
	opts.Network = cmp.Or(opts.Network, "tcp")
	opts.MaxRetries = -1 // the publisher retries, which is harmless because entries have ids
	opts.DialerRetries = 1
	opts.DialTimeout = cmp.Or(opts.DialTimeout, 2*time.Second)
	// With a pool of more than one connection, go-redis does not start to dial in the background after a single failure.
	opts.PoolSize, opts.PipelinePoolSize, opts.MinIdleConns = 2, -1, 0
	opts.ReadBufferSize, opts.WriteBufferSize = 16<<10, 16<<10
	opts.ContextTimeoutEnabled = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &dialer{opts}, nil
}

// connect creates a client. If the server cannot be reached, connect returns an error, so that go-redis does not log
// one at each attempt. If keep is not nil, connect calls it with each new connection, and closes the connection if
// keep returns false.
func (d *dialer) connect(ctx context.Context, keep func(net.Conn) bool) (*driver.Client, error) {
	dial := driver.NewDialer(d.options)
	kept := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil && keep != nil && !keep(conn) {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		return conn, err
	}
	conn, err := kept(ctx, d.options.Network, d.options.Addr)
	if err != nil {
		return nil, err
	}
	first := make(chan net.Conn, 1)
	first <- conn
	opts := *d.options
	opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case conn := <-first:
			return conn, nil
		default:
			return kept(ctx, network, address)
		}
	}
	return driver.NewClient(&opts), nil
}

// oldest is the first supported major version of Redis.
const oldest = 7

// check connects once and checks the version.
func (d *dialer) check(ctx context.Context) error {
	client, err := d.connect(ctx, nil)
	info := ""
	if err == nil {
		defer client.Close()
		info, err = client.Info(ctx, "server").Result()
		if isReply(err) && !isRefusal(err) { // the user may have no right to INFO
			err = client.Ping(ctx).Err()
		}
	}
	switch {
	case isRefusal(err):
		return fmt.Errorf("redis: %s refuses the user or the password: correct them: %w", d.options.Addr, err)
	case err != nil && ended(ctx) != nil:
		return ended(ctx)
	case err != nil:
		return fmt.Errorf("redis: %s cannot be reached: start Redis there, or correct its address: %w", d.options.Addr, err)
	}
	if v := version(info); v != "" {
		major, _, _ := strings.Cut(v, ".")
		if n, err := strconv.Atoi(major); err == nil && n < oldest {
			return fmt.Errorf("redis: %s runs version %s: version %d or newer is needed", d.options.Addr, v, oldest)
		}
	}
	return nil
}

// ended returns the context's error. It also returns one if the deadline has just passed and only the connection has
// noticed.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// version returns the server's version, or "" if INFO does not contain it.
func version(info string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v
		}
	}
	return ""
}

// isReply reports whether an error is a server's answer, and not a failure to get one.
func isReply(err error) bool {
	var reply driver.Error
	return errors.As(err, &reply)
}

func isRefusal(err error) bool {
	return isReply(err) && (driver.HasErrorPrefix(err, "WRONGPASS") || driver.HasErrorPrefix(err, "NOAUTH") || strings.Contains(err.Error(), "invalid password"))
}

// isOutOfOrder reports whether the stream already has an entry with this id or a later one.
func isOutOfOrder(err error) bool {
	return isReply(err) && strings.Contains(err.Error(), "equal or smaller than the target stream top item")
}

// isOfKey reports whether a server's error concerns one key only.
func isOfKey(err error) bool { return isReply(err) && driver.HasErrorPrefix(err, "WRONGTYPE") }
