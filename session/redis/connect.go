package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialer makes clients of one Redis. They connect when they are used first. A client
// that has failed is closed and replaced by another one, so that none of go-redis's own
// retries run in the background.
type dialer struct {
	address string
	dial    func() driver.UniversalClient
}

// urlDialer reads a URL. The error says nothing of the URL's parts, since one of
// them may be a password that is not escaped as it should be.
func urlDialer(url string) (*dialer, error) {
	opts, err := driver.ParseURL(url)
	if err != nil {
		return nil, errors.New("redis: the URL cannot be read: it should look like redis://USER:PASSWORD@HOST:6379/0, or rediss:// with TLS, or unix:///PATH; " +
			"special characters of a password are written as %XX")
	}
	tuneSimple(opts)
	return &dialer{opts.Addr, func() driver.UniversalClient { return driver.NewClient(opts) }}, nil
}

func tuneSimple(o *driver.Options) {
	o.MaxRetries = -1 // ids make repetition harmless, and we repeat
	o.DialerRetries = 1
	o.DialTimeout = cmp.Or(o.DialTimeout, 2*time.Second)
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns = 2, -1, 0
	o.ReadBufferSize, o.WriteBufferSize = cmp.Or(o.ReadBufferSize, 16<<10), cmp.Or(o.WriteBufferSize, 16<<10)
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func optionsDialer(opts driver.UniversalOptions) *dialer {
	o := opts
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = cmp.Or(o.DialTimeout, 2*time.Second)
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns = 2, -1, 0
	o.ReadBufferSize, o.WriteBufferSize = cmp.Or(o.ReadBufferSize, 16<<10), cmp.Or(o.WriteBufferSize, 16<<10)
	o.ContextTimeoutEnabled = true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // a replica may lag behind
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &dialer{strings.Join(o.Addrs, ", "), func() driver.UniversalClient {
		own := o
		return driver.NewUniversalClient(&own)
	}}
}

// oldest is the first major version of Redis that is good enough.
const oldest = 7

// check connects once and looks at the version.
func (d *dialer) check(ctx context.Context) error {
	client := d.dial()
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if isReply(err) && !isRefusal(err) { // INFO itself may be forbidden
		err = client.Ping(ctx).Err()
	}
	switch {
	case isRefusal(err):
		return fmt.Errorf("redis: %s refuses the user or the password: correct them: %w", d.address, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("redis: %s cannot be reached: start Redis there, or correct its address: %w", d.address, err)
	}
	if v := version(info); v != "" {
		major, _, _ := strings.Cut(v, ".")
		if n, err := strconv.Atoi(major); err == nil && n < oldest {
			return fmt.Errorf("redis: %s runs version %s: version %d or newer is needed", d.address, v, oldest)
		}
	}
	return nil
}

// version returns "" if the server does not say.
func version(info string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v
		}
	}
	return ""
}

// isReply reports whether an error is what a server answered, not the want of an
// answer.
func isReply(err error) bool {
	var reply driver.Error
	return errors.As(err, &reply)
}

func isRefusal(err error) bool {
	return isReply(err) && (driver.HasErrorPrefix(err, "WRONGPASS") || driver.HasErrorPrefix(err, "NOAUTH") || strings.Contains(err.Error(), "invalid password"))
}

// isOutOfOrder reports whether a stream has an entry of this id, or of a later one.
func isOutOfOrder(err error) bool {
	return isReply(err) && strings.Contains(err.Error(), "equal or smaller than the target stream top item")
}

// isOfKey reports whether a server's error concerns one key, and not all.
func isOfKey(err error) bool { return isReply(err) && driver.HasErrorPrefix(err, "WRONGTYPE") }
