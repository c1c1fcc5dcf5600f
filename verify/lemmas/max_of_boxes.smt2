; The maxima over the ranges of all devices give the maximum over everything, for any monoid (op, e).
; B(lo, m): reduction of the m terms from lo on. First op(B(0, lo), B(lo, m)) = B(0, lo + m) by induction on m, then A(c) = B(0, b(c)) by
; induction over devices, A(c) being the reduction of what the first c devices hold.
;; step split base
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-const e M)
(declare-fun B (Int Int) M)
(declare-const lo Int)
(assert (= (B lo 0) e))
(assert (= (op (B 0 lo) e) (B 0 lo)))
;; goal
(assert (not (= (op (B 0 lo) (B lo 0)) (B 0 (+ lo 0)))))
;; step split induction
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun f (Int) M)
(declare-fun B (Int Int) M)
(declare-const lo Int)
(declare-const m Int)
(assert (= (B lo (+ m 1)) (op (B lo m) (f (+ lo m)))))
(assert (= (B 0 (+ (+ lo m) 1)) (op (B 0 (+ lo m)) (f (+ lo m)))))
(assert (= (op (B 0 lo) (op (B lo m) (f (+ lo m)))) (op (op (B 0 lo) (B lo m)) (f (+ lo m)))))
(assert (= (op (B 0 lo) (B lo m)) (B 0 (+ lo m))))
;; goal
(assert (not (= (op (B 0 lo) (B lo (+ m 1))) (B 0 (+ lo (+ m 1))))))
;; step devices
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun B (Int Int) M)
(declare-fun A (Int) M)
(declare-fun b (Int) Int)
(declare-const c Int)
(assert (<= (b c) (b (+ c 1))))
(assert (= (A (+ c 1)) (op (A c) (B (b c) (- (b (+ c 1)) (b c))))))
(assert (= (op (B 0 (b c)) (B (b c) (- (b (+ c 1)) (b c)))) (B 0 (+ (b c) (- (b (+ c 1)) (b c))))))
(assert (= (A c) (B 0 (b c))))
;; goal
(assert (not (= (A (+ c 1)) (B 0 (b (+ c 1))))))
