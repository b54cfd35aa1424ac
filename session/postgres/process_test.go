package postgres_test

func playRole(string) int { return 2 }
