; Every index below b(n) lies in some device's range [b(c), b(c + 1)). By induction on the number m of devices; `w` is the owner that the
; hypothesis gives for an index below b(m).
;; step base
(declare-fun b (Int) Int)
(declare-const i Int)
(assert (= (b 0) 0))
(assert (<= 0 i))
;; goal
(assert (< i (b 0)))
;; step induction
(declare-fun b (Int) Int)
(declare-const i Int)
(declare-const m Int)
(declare-const w Int)
(assert (<= 0 m))
(assert (<= 0 i))
(assert (=> (< i (b m)) (and (<= 0 w) (< w m) (<= (b w) i) (< i (b (+ w 1))))))
(assert (< i (b (+ m 1))))
;; goal
(assert (not (and (<= 0 w) (< w (+ m 1)) (<= (b w) i) (< i (b (+ w 1))))))
(assert (not (and (<= (b m) i) (< i (b (+ m 1))))))
