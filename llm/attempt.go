package llm

import "context"

// Attempt is a failed request of a model that asks other models, such as a chain of fallbacks. It comes in a chunk of
// its own before any part of the answer, so that it never retracts anything. Callers that count calls count it as one.
type Attempt struct {
	// Model is the name of the model that was asked.
	Model   string
	Code    ErrorCode
	Message string
	// Usage is the usage of the request, nil if the endpoint did not report it.
	Usage *Usage
	// Begun reports that the endpoint had started its answer when the request was cancelled, and so charges for it.
	Begun bool
}

// Notice reports an event around an answer to people, in a chunk of its own. It is not part of the answer, and no model
// reads it.
type Notice struct{ Code, Message string }

// CodeHedged is the code of an [Attempt] that was cancelled because another request for the same answer was faster.
const CodeHedged ErrorCode = "hedged"

// Composite is a model that asks other models.
type Composite interface {
	Model
	// Models returns the models that it asks.
	Models() []Model
}

type admission struct{}

type anticipation struct{}

// WithAnticipation returns a context in which [Anticipated] returns true.
func WithAnticipation(ctx context.Context) context.Context {
	return context.WithValue(ctx, anticipation{}, true)
}

// Anticipated reports whether the request is sent before it is known whether its agent answers. Such a request is
// likely to be cancelled.
func Anticipated(ctx context.Context) bool { return ctx.Value(anticipation{}) != nil }

// Admission decides whether a [Composite] may send another request for the same answer. open is the number of its
// requests that have not ended. The error is the reason for a refusal.
type Admission func(m Model, req *Request, open int) error

// WithAdmission returns a context in which [Admit] calls f. A caller that limits the number of requests passes such a
// context to a [Composite].
func WithAdmission(ctx context.Context, f Admission) context.Context {
	return context.WithValue(ctx, admission{}, f)
}

// Admit calls the [Admission] of the context. A [Composite] calls it before every request for an answer except a first
// one to the model that has its name, on the goroutine that ranges over the answer. Without an [Admission], Admit allows
// every request.
func Admit(ctx context.Context, m Model, req *Request, open int) error {
	if f, ok := ctx.Value(admission{}).(Admission); ok {
		return f(m, req, open)
	}
	return nil
}
