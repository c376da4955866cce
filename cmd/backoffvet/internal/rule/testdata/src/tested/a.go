package tested

func bad() {}
