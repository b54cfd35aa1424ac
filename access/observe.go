package access

import (
	"context"
	"time"
)

// Observer hears what servers do, for metrics. Its methods are called concurrently, and must
// return at once. No name of a user, session or path is among what it hears.
type Observer interface {
	// Request is a request that was answered: its method, the pattern of its route, the status,
	// and how long it took.
	Request(ctx context.Context, method, route string, status int, took time.Duration)
	// Streams tells that so many more streams are open at a door.
	Streams(ctx context.Context, door string, more int)
	// Delta is the time from when a model's words were there until a client was sent them.
	Delta(ctx context.Context, door string, took time.Duration)
	// Running tells that so many more turns are under way, which a door has begun.
	Running(ctx context.Context, door string, more int)
	// Turn is how a turn has come to rest, or that it was cut off.
	Turn(ctx context.Context, door, outcome string)
}

// unobserved is the observer of those who have none.
type unobserved struct{}

func (unobserved) Request(context.Context, string, string, int, time.Duration) {}
func (unobserved) Streams(context.Context, string, int)                        {}
func (unobserved) Delta(context.Context, string, time.Duration)                {}
func (unobserved) Running(context.Context, string, int)                        {}
func (unobserved) Turn(context.Context, string, string)                        {}

type doorKey struct{}

// WithDoor returns a context that carries the name of the door through which a request came.
func WithDoor(ctx context.Context, door string) context.Context {
	return context.WithValue(ctx, doorKey{}, door)
}

// DoorOf returns the door that a context carries, "" if it carries none.
func DoorOf(ctx context.Context) string {
	door, _ := ctx.Value(doorKey{}).(string)
	return door
}
