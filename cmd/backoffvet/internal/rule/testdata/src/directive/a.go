package directive

func _() {
	/* want "names no rule" */ //backoffvet:ignore
	/* want "no rule \"others\"" */ //backoffvet:ignore others a reason
	/* want "gives no reason" */ //backoffvet:ignore calls
	/* want "calls finds nothing here" */ //backoffvet:ignore calls a reason

	//backoffvet:ignore calls a reason
	bad()

	//backoffvet:ignore calls,cries a reason for both
	bad()

	//backoffvet:ignore calls a reason
	//backoffvet:ignore cries another reason
	bad()
}

func bad() {}
