package a2av0

// What the tests reach without an a2aserver.Server or a remote agent.
var (
	Card         = bothCard
	NewHandler   = newHandler
	Notification = notification
	ParseCard    = parseCard
)
