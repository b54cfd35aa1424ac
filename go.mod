module github.com/agentarbor/arbor

go 1.26.8
